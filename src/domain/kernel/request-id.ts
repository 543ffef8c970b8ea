import { newId } from "./ids.ts";

const REQUEST_ID = /^[\w-]{8,64}$/;

/** Returns the client's own `X-Request-Id` if it is valid, otherwise a new id. */
export const requestIdFrom = (header: unknown): string =>
  typeof header === "string" && REQUEST_ID.test(header) ? header : newId();
