export { POST } from '../../../../app/api/revalidate/route';
