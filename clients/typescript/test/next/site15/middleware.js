import { NextResponse } from 'next/server';

export default function middleware() {
  return NextResponse.next({ headers: { 'x-proxied': process.env.NEXT_RUNTIME } });
}
