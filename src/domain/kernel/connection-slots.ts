import { retryLater } from "./errors.ts";
import { SharedSlots } from "./shared-slots.ts";

/** Part of a process's connections that the requests and rooms of one tenant hold at once. */
const TENANT_PART = 0.75;
/** Maximum wait for a connection of a pool, in ms. */
export const CONNECTION_WAIT_MS = 3_000;

type ConnectionLimits = { connections: number; connectionWaitMs: number };

/** The refusal of who has waited too long for a connection while the database answers. */
export const tooBusy = (): Error => retryLater("the server has too much to do right now", "SERVER_BUSY");

/**
 * Divides a process's connections among tenants before the pool is asked, which would serve all in the order
 * of their arrival: a tenant's request would wait for as many as another has sent.
 */
export const connectionSlots = ({ connections, connectionWaitMs }: ConnectionLimits): SharedSlots =>
  new SharedSlots({
    slots: { ofOwner: Math.max(1, Math.floor(connections * TENANT_PART)), ofProcess: connections },
    // Bounded by their wait, and by the requests that a process accepts.
    waitingMax: { ofOwner: Infinity, ofProcess: Infinity },
    waitMaxMs: connectionWaitMs,
    refusal: tooBusy,
  });
