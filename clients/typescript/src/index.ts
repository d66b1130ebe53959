export * from './errors.js';
export { type Outcome, outcomeOf } from './outcome.js';
