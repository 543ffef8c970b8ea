import { DomainError } from "./errors.ts";
import { BUSY } from "./outages.ts";

/** Maximum number of those who wait, and bytes of the requests that they hold meanwhile. */
export type WaitingMax = { count: number; bytes: number };

/** Who waits for a slot. */
export type Waiter = {
  /** Undefined where the server acts by itself: it is not counted. */
  tenantId?: string | undefined;
  /** Size of the request held in memory while it waits. */
  bytes?: number | undefined;
  /** Aborted when the caller has gone. */
  signal?: AbortSignal | undefined;
};

const MIB = 1024 * 1024;
/** Limits of all callers who wait in a process. */
const PROCESS_WAITING_MAX: WaitingMax = { count: 600, bytes: 64 * MIB };
/** The same for one tenant: a quarter of it. */
const TENANT_WAITING_MAX: WaitingMax = { count: 150, bytes: 16 * MIB };

/** Seconds after which a rejected caller may retry. */
const RETRY_SECONDS = 1;

/** The refusal of who has waited too long, or who comes when too much waits. */
export const busy = (): DomainError =>
  new DomainError("SERVICE_UNAVAILABLE", "Other requests are changing the same data right now: try again", {
    reason: BUSY,
    retryAfterSeconds: RETRY_SECONDS,
  });

/** Bounds what waits at several semaphores together, by tenant and in all. */
export type WaitingRoom = {
  /** @returns a function to be called when the wait is over @throws DomainError BUSY at the limits */
  take(waiter: Waiter): () => void;
};

type Limits = { processMax?: WaitingMax; tenantMax?: WaitingMax };

export const createWaitingRoom = ({
  processMax = PROCESS_WAITING_MAX,
  tenantMax = TENANT_WAITING_MAX,
}: Limits = {}): WaitingRoom => {
  const all = { count: 0, bytes: 0 };
  const tenants = new Map<string, { count: number; bytes: number }>();
  const isOver = (held: WaitingMax, max: WaitingMax, bytes: number): boolean =>
    held.count + 1 > max.count || held.bytes + bytes > max.bytes;
  return {
    take: ({ tenantId, bytes = 0 }) => {
      if (tenantId === undefined) return () => undefined;
      const own = tenants.get(tenantId) ?? { count: 0, bytes: 0 };
      if (isOver(all, processMax, bytes) || isOver(own, tenantMax, bytes)) throw busy();
      tenants.set(tenantId, own);
      for (const held of [all, own]) {
        held.count++;
        held.bytes += bytes;
      }
      return () => {
        for (const held of [all, own]) {
          held.count--;
          held.bytes -= bytes;
        }
        if (own.count === 0) tenants.delete(tenantId);
      };
    },
  };
};
