import { setTimeout as delay } from "node:timers/promises";
import { Unprepared } from "../kernel/unprepared.ts";
import type { QueuedEvent } from "./queue.ts";

/** Thrown where some events of a claim cannot be evaluated yet, while all others can. */
export abstract class EventsUnready extends Unprepared {
  /** Whether an event is one of those, and stays in the queue. */
  abstract isLate(event: QueuedEvent): boolean;
}

/** How soon events are looked at again whose project or player others were at work on, in ms. */
const HELD_AFTER_MS = 50;

/** Thrown where others hold what events need: they are not waited for in a transaction. */
export class EventsHeld extends EventsUnready {
  readonly isLate: (event: QueuedEvent) => boolean;

  /** @param what they hold, for the message */
  constructor(what: string, isLate: (event: QueuedEvent) => boolean) {
    super(`others are at work on ${what}`);
    this.isLate = isLate;
  }

  override async prepare(): Promise<void> {
    await delay(HELD_AFTER_MS);
  }
}
