import cluster from "node:cluster";
import { once } from "node:events";
import type { Server as HttpServer } from "node:http";
import { type AddressInfo, createServer, type ListenOptions, Server as TcpServer } from "node:net";
import { setImmediate as turn } from "node:timers/promises";

/** Address on which a server listens: `names` are the settings that define it. */
export type ListenAddress = {
  host: string;
  port: number;
  /** Exclusive to this process, where node:cluster would share the port among its workers. */
  exclusive?: boolean;
  names: [host: string, port: string];
};

/**
 * Number of sockets that listen on one port. The event loop accepts one connection of each per iteration, and
 * iterations are long under load: with a single socket many of a returning crowd would wait for longer than
 * their seats are kept.
 */
const LISTENERS = 16;
/** Whether the kernel distributes connections over several sockets of one port. */
const IS_SHARED_OUT = process.platform === "linux";
/** How long a stopping server accepts connections that still arrive, in ms. */
const LAST_TAKEN_MS = 500;

/** What to do when the server cannot listen, by error code. */
const REMEDIES: Record<string, (place: ListenAddress) => string> = {
  EADDRINUSE: ({ port, names: [, name] }) =>
    `another process listens there (lsof -i :${port} says which). ` +
    `Stop it, or take another port: ${name}=${port + 1} npm start`,
  EACCES: ({ names: [, name] }) => `ports below 1024 need rights. Take another one: ${name}=2567 npm start`,
  EADDRNOTAVAIL: ({ names: [name] }) => `${name} is not an address of this machine. Leave it out`,
};

/**
 * Listens with a single socket, for a server of which connections are not many at a time.
 * @throws Error that says what to do
 */
export const listenOnce = async (server: TcpServer, { names, ...place }: ListenAddress): Promise<void> => {
  await open(server, place).catch((error: unknown) => {
    throw explained(error, { ...place, names });
  });
};

/** A server's additional listeners, and the number of connections accepted by all of them. */
type Listening = { others: TcpServer[]; taken: number };

const listening = new WeakMap<TcpServer, Listening>();

const open = async <S extends TcpServer>(server: S, options: ListenOptions): Promise<S> => {
  server.listen(options);
  await once(server, "listening");
  return server;
};

/** Checks that the port is free: sockets that share one do not notice that another process has it. */
const checkIsFree = async (place: ListenOptions): Promise<void> => {
  const probe = await open(createServer(), place);
  probe.close();
  await once(probe, "close");
};

const openAll = async (
  server: HttpServer,
  { host, port, exclusive = false }: ListenAddress,
): Promise<void> => {
  const all: Listening = { others: [], taken: 0 };
  listening.set(server, all);
  server.on("connection", () => void all.taken++);
  // In workers of node:cluster the primary accepts connections, and does nothing else.
  if (!IS_SHARED_OUT || (cluster.isWorker && !exclusive))
    return void (await open(server, { host, port, exclusive }));
  if (port !== 0) {
    // Of two that begin at the same time both would find the port free: the name is one's alone.
    const name = `\0laurel-port:${host}:${port}`;
    all.others.push(await open(createServer(), { path: name, exclusive: true }));
    await checkIsFree({ host, port, exclusive });
  }
  const shared = { host, exclusive: true, reusePort: true };
  await open(server, { ...shared, port });
  const { port: taken } = server.address() as AddressInfo;
  for (let more = 1; more < LISTENERS; more++) {
    // The same options as HTTP servers use.
    const other = createServer({ allowHalfOpen: true, noDelay: true });
    other.on("connection", (socket) => server.emit("connection", socket));
    all.others.push(await open(other, { ...shared, port: taken }));
  }
};

const explained = (error: unknown, place: ListenAddress): Error => {
  const { code = "", message } = error as NodeJS.ErrnoException;
  const remedy = REMEDIES[code]?.(place) ?? message;
  return new Error(`Cannot listen on ${place.host}, port ${place.port}: ${remedy}`, { cause: error });
};

/** Listens with several sockets. @throws Error that says what to do */
export const listen = async (server: HttpServer, place: ListenAddress): Promise<void> => {
  await openAll(server, place).catch((error: unknown) => {
    // Its name among them: who tries again would meet itself.
    for (const one of [server, ...(listening.get(server)?.others ?? [])]) if (one.listening) one.close();
    throw explained(error, place);
  });
};

/**
 * Checks that a server could listen, before the work that would be in vain otherwise. A port that workers of
 * node:cluster share is not checked, since the others have it.
 * @throws Error that says what to do
 */
export const requireFreePort = async ({ names, ...place }: ListenAddress): Promise<void> => {
  if (place.port === 0 || (cluster.isWorker && place.exclusive !== true)) return;
  await checkIsFree(place).catch((error: unknown) => {
    throw explained(error, { ...place, names });
  });
};

/** Resolves when a server has stopped listening and all its connections have ended. */
export const whenClosed = async (server: TcpServer): Promise<void> => {
  const all = [server, ...(listening.get(server)?.others ?? [])].filter((one) => one.listening);
  await Promise.all(all.map((one) => once(one, "close")));
};

/**
 * Stops listening, as `close` of HTTP servers does, which would also close idle connections at once. Pending
 * connections are accepted first: the kernel would reset them.
 */
export const stopListening = async (server: TcpServer): Promise<void> => {
  const all = listening.get(server);
  // An iteration begins before it accepts what has arrived, so the first one may have come too early.
  let quiet = 0;
  const endMs = performance.now() + LAST_TAKEN_MS;
  while (all && quiet < 2 && performance.now() < endMs) {
    const { taken } = all;
    await turn();
    quiet = all.taken === taken ? quiet + 1 : 0;
  }
  for (const other of all?.others ?? []) other.close();
  if (server.listening) TcpServer.prototype.close.call(server);
};
