import Link from 'next/link';
import Ready from './ready';

export const metadata = { title: 'isr e2e: Next.js' };

export default function Layout({ children }) {
  return (
    <html lang="en">
      <body>
        <nav>
          <Link href="/">Home</Link> <Link href="/articles/rye">Rye</Link>{' '}
          <Link href="/articles/wheat">Wheat</Link>{' '}
          <Link href="/now" prefetch={false}>Now</Link> <Link href="/notes" prefetch={false}>Notes</Link>{' '}
          <Link href="/account" prefetch={false}>Account</Link>
        </nav>
        {children}
        <Ready />
      </body>
    </html>
  );
}
