/** Unique, and sorts by time: those of one page by the order in which they are published. */
export function generationId(nowMs: number, token: string): string {
  const [date = '', time = ''] = new Date(nowMs).toISOString().replace(/[-:Z]/g, '').split('T');
  return `${date}T${time}000Z-${token.toLowerCase()}`;
}
