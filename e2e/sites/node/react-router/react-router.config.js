// Behind a proxy React Router takes the proxy's address for its own, and refuses the actions of
// visitors of another host unless it is named. The tests use any port.
export default { ssr: true, allowedActionOrigins: ['127.0.0.*'] };
