/** The main scenarios of site.test.ts on Next.js 15, behind an edge middleware and built by webpack. */

process.env['ISR_TEST_NEXT_15'] = '1';

await import('./site.test.js');

export {};
