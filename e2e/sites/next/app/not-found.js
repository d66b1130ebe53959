export default function NotFound() {
  return <main><h1>Not found here</h1></main>;
}
