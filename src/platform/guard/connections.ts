import type { Socket } from "node:net";
import { type buildConnector, Client, errors } from "undici";
import type { Connect } from "./connect.ts";
import type { Target } from "./url.ts";

/** Connections that wait for the next request, to one origin and in all; the oldest are closed first. */
const IDLE_PER_ORIGIN = 16;
const IDLE_MAX = 256;
/** Servers close what is idle for 5 seconds or more, as they say in their answers. */
const IDLE_MS = 4_000;
const IDLE_MS_MAX = 30_000;
/** Then the name is looked up again, however busy the connection is. */
const AGE_MS_MAX = 300_000;
const HEADER_BYTES_MAX = 16_384;
/** One for all: making an error, with its stack, costs more than closing a connection. */
const ENDED = new errors.ClientDestroyedError();

/** One connection to one origin, used by one request at a time. */
export type Connection = {
  client: Client;
  origin: string;
  bornMs: number;
  /** Bytes received on it so far. */
  received(): number;
  /** Ends it, also while it is made. */
  end(): void;
};

export type Connections = {
  /** One that was kept after an answer; its server may just be closing it. */
  takeIdle(origin: string): Connection | undefined;
  /** A new one, which connects with its first request. */
  open(target: Target): Connection;
  /** After an answer that was read to its end. */
  giveBack(connection: Connection): void;
  /** Ends those that are idle, and all others as they are given back. */
  close(): void;
};

/** Connections over `connect` alone: undici has no say in where they go, it follows nothing. */
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
      // The one that was used last: the others may end.
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
      // What undici asserts in its callback must not end the process: the time limit ends the request.
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
