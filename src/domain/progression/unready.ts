import { setTimeout as delay } from "node:timers/promises";
import { Unprepared } from "../kernel/unprepared.ts";
import type { QueuedEvent } from "./queue.ts";

/** Thrown where some events of a claim cannot be evaluated yet, while the others can. */
export abstract class EventsUnready extends Unprepared {
  /** Returns whether an event is one of those, and stays in the queue. */
  abstract isLate(event: QueuedEvent): boolean;
}

/** Delay before events are retried whose project or player was locked by others, in ms. */
const HELD_AFTER_MS = 50;

/** Thrown where others hold locks that events need: a claim does not wait for them. */
export class EventsHeld extends EventsUnready {
  readonly isLate: (event: QueuedEvent) => boolean;

  /** @param what the locked items, for the message */
  constructor(what: string, isLate: (event: QueuedEvent) => boolean) {
    super(`others hold ${what}`);
    this.isLate = isLate;
  }

  override async prepare(): Promise<void> {
    await delay(HELD_AFTER_MS);
  }
}
