/** Returns a unique generation id. Ids sort by time, so a page's ids sort in publishing order. */
export function generationId(nowMs: number, token: string): string {
  const [date = '', time = ''] = new Date(nowMs).toISOString().replace(/[-:Z]/g, '').split('T');
  return `${date}T${time}000Z-${token.toLowerCase()}`;
}
