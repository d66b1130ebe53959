/** Leases under the names of TableTheory's subpath `/lease`. */

export {
  type JobLease,
  type JobLease as Lease,
  type KeptLease,
  type LeaseKey,
  LeaseManager,
  type LeaseManagerOptions,
  type LeaseTerm,
} from './manager.js';
