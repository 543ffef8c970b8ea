import { setTimeout as delay } from "node:timers/promises";
import { Unprepared } from "../unprepared.ts";

/** Thrown where events of some projects cannot be evaluated yet, while those of all others can. */
export abstract class ProjectsUnready extends Unprepared {
  abstract readonly projectIds: readonly string[];
}

/** How soon projects are looked at again whose definitions were being changed, in ms. */
const CHANGED_AFTER_MS = 50;

/** Thrown where definitions of projects are being changed: the change is not waited for in a transaction. */
export class ConfigHeld extends ProjectsUnready {
  readonly projectIds: readonly string[];

  constructor(projectIds: readonly string[]) {
    super(`definitions are being changed: ${projectIds.join(", ")}`);
    this.projectIds = projectIds;
  }

  override async prepare(): Promise<void> {
    await delay(CHANGED_AFTER_MS);
  }
}
