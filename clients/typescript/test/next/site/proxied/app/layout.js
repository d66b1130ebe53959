export { default } from '../../app/layout';
