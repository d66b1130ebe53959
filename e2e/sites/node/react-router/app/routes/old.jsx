import { redirect } from 'react-router';

export const loader = () => redirect('/stories/rye', 301);
