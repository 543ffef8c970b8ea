import { conflict, type DomainError } from "../kernel/errors.ts";

export const tooLarge = (why: string): DomainError =>
  conflict("EVENT_TOO_LARGE", `the event is too large to be reverted: ${why}`);
