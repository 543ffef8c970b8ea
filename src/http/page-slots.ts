import type { z } from "zod";
import type { Actor } from "../domain/kernel/caller.ts";
import { createLanes } from "../domain/kernel/lanes.ts";
import type { AnyRoute } from "./route.ts";
import { ownerOf } from "./unread.ts";

/** Pages of one tenant, or one address, that are read and written at once in a process. */
const OWNER_SLOTS = 2;
/** The same of all. */
const PROCESS_SLOTS = 6;

/** Whether a route answers pages whose rows may be large documents. */
export const hasLargePages = ({ method, query, hasSmallRows }: AnyRoute): boolean =>
  method === "get" && hasSmallRows !== true && query !== undefined && "limit" in shapeOf(query as z.ZodType);

const shapeOf = (schema: z.ZodType): object => ("shape" in schema ? (schema.shape as object) : {});

/**
 * Bounds the memory of pages: a page of 100 large documents takes a hundred megabytes while it is made. So
 * only a few are made at once, and further requests wait in the order of their arrival.
 */
export class PageSlots {
  readonly #lanes = createLanes();
  #next = 0;

  /** @throws DomainError SERVICE_UNAVAILABLE BUSY when too much waits, or for too long */
  async run<T>(actor: Actor, make: () => Promise<T>): Promise<T> {
    const { caller, ip } = actor;
    const own = await this.#enter(ownerOf(caller, ip), OWNER_SLOTS, actor);
    try {
      const common = await this.#enter("process", PROCESS_SLOTS, actor);
      try {
        return await make();
      } finally {
        this.#lanes.leave(common);
      }
    } finally {
      this.#lanes.leave(own);
    }
  }

  /** Takes a free slot, or waits for the next one in turn. @returns its key */
  async #enter(name: string, slots: number, { caller, waits }: Actor): Promise<string> {
    const first = this.#next++;
    const keys = Array.from({ length: slots }, (_, n) => `${name} ${(first + n) % slots}`);
    for (const key of keys) if (this.#lanes.tryEnter(key)) return key;
    const [key] = keys;
    const tenantId = "tenantId" in caller ? caller.tenantId : undefined;
    await this.#lanes.enter(key!, { tenantId, bytes: 0, signal: waits?.signal });
    return key!;
  }
}
