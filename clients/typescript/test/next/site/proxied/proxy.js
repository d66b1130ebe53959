import { NextResponse } from 'next/server';

export default function proxy() {
  return NextResponse.next({ headers: { 'x-proxied': process.env.NEXT_RUNTIME } });
}
