import { index, route } from '@react-router/dev/routes';

export default [
  index('routes/home.jsx'),
  route('stories/:slug', 'routes/story.jsx'),
  route('recipes/:slug', 'routes/recipe.jsx'),
  route('notes', 'routes/notes.jsx'),
  route('login', 'routes/login.jsx'),
  route('account', 'routes/account.jsx'),
  route('logout', 'routes/logout.jsx'),
  route('old', 'routes/old.jsx'),
];
