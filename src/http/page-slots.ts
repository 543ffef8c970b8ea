import type { z } from "zod";
import type { Caller } from "../domain/kernel/caller.ts";
import { SharedSlots } from "../domain/kernel/shared-slots.ts";
import { busy, createWaitingRoom } from "../domain/kernel/waiting-room.ts";
import type { AnyRoute } from "./route.ts";
import { ownerOf } from "./unread.ts";

/** Pages of one tenant, or one address, that are read and written at once in a process, and those of all. */
const PAGES: Slots = { ofOwner: 2, ofProcess: 6 };
/** The same of configurations of whole projects, which are read, compared or imported. */
const CONFIGURATIONS: Slots = { ofOwner: 1, ofProcess: 2 };
/** The same of questions of analytics, each of which keeps a core of the database busy. */
const QUESTIONS: Slots = { ofOwner: 2, ofProcess: 4 };
/** The same of files that are streamed, each of which holds a snapshot for as long as its client reads. */
const STREAMS: Slots = { ofOwner: 1, ofProcess: 3 };
/** Requests that wait for each of those slots, at most, and their maximum wait in ms. */
const SLOT_WAITING_MAX = 60;
const WAIT_MAX_MS = 10_000;

/** Whether a route answers pages whose rows may be large documents. */
export const hasLargePages = ({ method, query, hasSmallRows }: AnyRoute): boolean =>
  method === "get" && hasSmallRows !== true && query !== undefined && "limit" in shapeOf(query as z.ZodType);

const shapeOf = (schema: z.ZodType): object => ("shape" in schema ? (schema.shape as object) : {});

type Slots = { ofOwner: number; ofProcess: number };

/** Who asks for something large. `bytes`: of the request; `signal`: aborted when they have gone. */
type Asker = { caller: Caller; ip: string; bytes: number; signal: AbortSignal };

/**
 * Bounds the memory of what is large while it is made: only a few are made at once, and further requests wait
 * in the order of their arrival.
 */
export class LargeWork {
  readonly #slots: SharedSlots;

  constructor(slots: Slots) {
    const waitingMax = {
      ofOwner: slots.ofOwner * SLOT_WAITING_MAX,
      ofProcess: slots.ofProcess * SLOT_WAITING_MAX,
    };
    const room = createWaitingRoom();
    this.#slots = new SharedSlots({ slots, waitingMax, waitMaxMs: WAIT_MAX_MS, refusal: busy, room });
  }

  /** @throws DomainError SERVICE_UNAVAILABLE BUSY when too much waits, or for too long */
  run<T>({ caller, ip, bytes, signal }: Asker, make: () => Promise<T>): Promise<T> {
    const tenantId = "tenantId" in caller ? caller.tenantId : undefined;
    return this.#slots.run(ownerOf(caller, ip), make, { tenantId, bytes, signal });
  }
}

/** Pages: one of 100 large documents takes a hundred megabytes. */
export const pageSlots = (): LargeWork => new LargeWork(PAGES);

/** Configurations: one of a project at its limits takes as much, and CPU for seconds in slices. */
export const configurationSlots = (): LargeWork => new LargeWork(CONFIGURATIONS);

/** Questions of analytics: each reads much. */
export const questionSlots = (): LargeWork => new LargeWork(QUESTIONS);

/** Streamed files: slow readers keep nobody from asking questions. */
export const streamSlots = (): LargeWork => new LargeWork(STREAMS);

/** Bounds of what is large, by kind. */
export type LargeWorks = {
  pages: LargeWork;
  configurations: LargeWork;
  questions: LargeWork;
  streams: LargeWork;
};

/** Returns what bounds a route's work; undefined for what is small. */
export const slotsOf = (route: AnyRoute, bounds: LargeWorks): LargeWork | undefined => {
  if (route.isStream) return bounds.streams;
  if (route.isQuestion) return bounds.questions;
  if (hasLargePages(route)) return bounds.pages;
  return route.isOfConfiguration ? bounds.configurations : undefined;
};
