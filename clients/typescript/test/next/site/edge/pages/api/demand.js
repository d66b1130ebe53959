export { default } from '../../../pages/api/demand';
