import { connect } from "node:net";

/** A client of pg, as far as it takes to end what its backend does. */
export type Cancelled = {
  processID?: number | null;
  secretKey?: number | null;
  connectionParameters?: { host: string; port: number };
};

/** A request to cancel: length, code, backend and its secret (PostgreSQL 18, 54.7, CancelRequest). */
const LENGTH = 16;
const CODE = 80_877_102;
/** How long it may take to be sent, in ms. */
const SENT_MAX_MS = 5_000;

/**
 * Asks PostgreSQL to end the statement of a backend, whose connection must be closed already: nobody else has
 * it then. Where that does not arrive, the server notices by itself that its client has gone, if it looks.
 */
export const cancelStatement = ({ processID, secretKey, connectionParameters }: Cancelled): void => {
  if (!processID || typeof secretKey !== "number" || !connectionParameters) return;
  const { host, port } = connectionParameters;
  const message = Buffer.alloc(LENGTH);
  for (const [i, word] of [LENGTH, CODE, processID, secretKey].entries()) message.writeInt32BE(word, 4 * i);
  const socket = host.startsWith("/") ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host);
  socket.on("error", () => undefined).setTimeout(SENT_MAX_MS, () => socket.destroy());
  socket.resume();
  socket.end(message);
};
