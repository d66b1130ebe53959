import { brief } from '../../../data';
import { Shown } from '../../../shown';

export default function Page({ params }) {
  return <Shown of={brief} params={params} />;
}
