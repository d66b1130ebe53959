export const GET = ({ redirect }) => redirect('/stories/rye', 301);
