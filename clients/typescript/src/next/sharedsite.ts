/**
 * The property of a handler class with its `SharedSite`. It is apart from that class, which bundlers follow
 * to the stores and the AWS SDK: a site behind `isr serve` needs neither.
 */
export const sharedSite: unique symbol = Symbol('sharedSite');
