import { item } from '../../data';

/** A static page, which uses a cached function: only the handler of pages can drop it. */
export default async function Whole() {
  const { text, at } = await item('whole');
  return (
    <p>
      <b>{text}</b> at <time>{at}</time>
    </p>
  );
}
