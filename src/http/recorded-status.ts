import type { ServerResponse } from "node:http";

/** Recorded for a client that disconnected before its response began, as nginx does. It is never sent. */
const CLIENT_GONE = 499;

const refused = new WeakMap<ServerResponse, number>();

/** Notes that a request was answered on the bare connection, without its response. */
export const noteRefusal = (response: ServerResponse, status: number): void => {
  if (!response.headersSent) refused.set(response, status);
};

/** Returns the status for logs and metrics, of a response that has ended. */
export const recordedStatus = (response: ServerResponse): number =>
  refused.get(response) ?? (response.headersSent ? response.statusCode : CLIENT_GONE);
