import { remote } from '../../../data';
import { Shown } from '../../../shown';

export default function Page({ params }) {
  return <Shown of={remote} params={params} />;
}
