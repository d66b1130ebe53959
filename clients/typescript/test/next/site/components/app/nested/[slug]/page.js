import { nested } from '../../../data';
import { Shown } from '../../../shown';

export default function Page({ params }) {
  return <Shown of={nested} params={params} />;
}
