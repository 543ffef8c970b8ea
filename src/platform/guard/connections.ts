import type { Socket } from "node:net";
import { type buildConnector, Client, errors } from "undici";
import type { Connect } from "./connect.ts";
import type { Target } from "./url.ts";

/** Maximum number of idle connections, per origin and in total; the oldest are closed first. */
const IDLE_PER_ORIGIN = 16;
const IDLE_MAX = 256;
/** Servers close idle connections after 5 seconds or more, according to their responses. */
const IDLE_MS = 4_000;
const IDLE_MS_MAX = 30_000;
/** Maximum age of a connection; then the name is looked up again, however busy the connection is. */
const AGE_MS_MAX = 300_000;
const HEADER_BYTES_MAX = 16_384;
/** Shared instance: creating an error, with its stack, costs more than closing a connection. */
const ENDED = new errors.ClientDestroyedError();

/** One connection to one origin, used by one request at a time. */
export type Connection = {
  client: Client;
  origin: string;
  bornMs: number;
  /** Bytes received on it so far. */
  received(): number;
  /** Ends the connection, also while it is being opened. */
  end(): void;
};

export type Connections = {
  /** Returns a connection kept after a response, if any; its server may just be closing it. */
  takeIdle(origin: string): Connection | undefined;
  /** Creates a connection that opens with its first request. */
  open(target: Target): Connection;
  /** Returns a connection after its response was read to the end. */
  giveBack(connection: Connection): void;
  /** Ends idle connections at once, and all others when they are returned. */
  close(): void;
};

/**
 * Creates a pool over `connect` alone: undici does not decide where connections go, and follows no redirects.
 */
export const createConnections = (connect: Connect): Connections => {
  // In the order in which they became idle.
  const idle = new Set<Connection>();
  const idleOf = new Map<string, Connection[]>();
  let isClosed = false;

  const forget = (connection: Connection): void => {
    if (!idle.delete(connection)) return;
    const { origin } = connection;
    const others = idleOf.get(origin)?.filter((one) => one !== connection) ?? [];
    if (others.length === 0) idleOf.delete(origin);
    else idleOf.set(origin, others);
  };

  const open = (target: Target): Connection => {
    const ending = new AbortController();
    let socket: Socket | undefined;
    const connection: Connection = {
      client: newClient(target, async () => (socket = await connect(target, ending.signal))),
      origin: target.origin,
      bornMs: performance.now(),
      received: () => socket?.bytesRead ?? 0,
      end: () => {
        forget(connection);
        ending.abort(ENDED);
        void connection.client.destroy(ENDED);
      },
    };
    connection.client.on("disconnect", connection.end);
    return connection;
  };

  return {
    open,
    takeIdle: (origin) => {
      // The most recently used one: the others may expire.
      const connection = idleOf.get(origin)?.at(-1);
      if (connection) forget(connection);
      return connection;
    },
    giveBack: (connection) => {
      const { origin, client } = connection;
      const others = idleOf.get(origin);
      const isOld = performance.now() - connection.bornMs > AGE_MS_MAX;
      if (isClosed || isOld || client.destroyed || (others?.length ?? 0) >= IDLE_PER_ORIGIN)
        return connection.end();
      idle.add(connection);
      if (others) others.push(connection);
      else idleOf.set(origin, [connection]);
      if (idle.size > IDLE_MAX) idle.values().next().value?.end();
    },
    close: () => {
      isClosed = true;
      for (const connection of idle) connection.end();
    },
  };
};

const newClient = ({ origin }: Target, connect: () => Promise<Socket>): Client =>
  new Client(origin, {
    connect: (_options, callback) => {
      // A failed assertion of undici in its callback must not end the process: the time limit ends the
      // request.
      establish(connect, callback).catch(() => undefined);
    },
    pipelining: 1,
    allowH2: false,
    maxHeaderSize: HEADER_BYTES_MAX,
    // The whole exchange has one time limit, which is not undici's.
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: IDLE_MS,
    keepAliveMaxTimeout: IDLE_MS_MAX,
  });

const establish = async (connect: () => Promise<Socket>, done: buildConnector.Callback): Promise<void> => {
  let socket: Socket;
  try {
    socket = await connect();
  } catch (error) {
    done(error as Error, null);
    return;
  }
  done(null, socket);
};
