import type { Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createSecureContext, createServer, type SecureContext, type Server as TlsServer } from "node:tls";
import type { App } from "../app.ts";
import { readKeyPair } from "../domain/accounts/domains/order.ts";
import { type KnownDomain, nameOfHost } from "../domain/accounts/domains/known.ts";
import { createSizedCache } from "../domain/kernel/caches.ts";
import { joinFlight } from "../domain/kernel/flights.ts";
import { listenOnce } from "./listening.ts";

/** A handshake that is not over after this time, in ms, is ended. */
const HANDSHAKE_MS = 10_000;
/** Certificates that a process keeps ready; those of one tenant push out its own first. */
const CONTEXTS_MAX = 2_000;

/** `context` is undefined where there is no certificate yet: another version comes with it. */
type Ready = { version: string; context: SecureContext | undefined };

/** Finds what TLS is spoken with, by the name that a client asks for. */
const contextFinder = (app: App): ((name: string) => Promise<SecureContext | undefined>) => {
  const ready = createSizedCache<Ready>({ items: CONTEXTS_MAX });
  const loading = new Map<string, Promise<SecureContext | undefined>>();
  const transact = app.transactAs({ role: "accounts" });

  const load = async ({ id, tenantId, version }: KnownDomain): Promise<SecureContext | undefined> => {
    const pair = await transact((work) => readKeyPair(work, app.secretBox, id));
    const context = pair && createSecureContext({ cert: pair.chain, key: pair.key, minVersion: "TLSv1.2" });
    ready.keep(id, { version, context }, { owner: tenantId });
    return context;
  };

  return async (name) => {
    const known = await app.domains.find(nameOfHost(name));
    if (!known) return undefined;
    const has = ready.get(known.id);
    if (has?.version === known.version) return has.context;
    try {
      return await joinFlight(loading, known.id, () => load(known));
    } catch (error) {
      app.warnOfOutage(error, "the certificate of a custom domain could not be read");
      return has?.context;
    }
  };
};

type Done = (error: Error | null, context?: SecureContext) => void;

const answer = async (find: ReturnType<typeof contextFinder>, name: string, done: Done): Promise<void> => {
  let context: SecureContext | undefined;
  try {
    context = await find(name);
  } catch (error) {
    return done(error as Error);
  }
  return context ? done(null, context) : done(new Error("no certificate"));
};

/**
 * Opens TLS_PORT, whose connections `server` serves like its own: requests and WebSockets. Names without a
 * certificate, and clients that ask for none, are refused in the handshake. Undefined where there is none.
 * @throws Error that says what to do
 */
export const openTlsPort = async (app: App, server: HttpServer): Promise<TlsServer | undefined> => {
  const acme = app.config.domains?.acme;
  if (!acme) return undefined;
  const find = contextFinder(app);
  const tls = createServer(
    {
      ALPNProtocols: ["http/1.1"],
      handshakeTimeout: HANDSHAKE_MS,
      noDelay: true,
      minVersion: "TLSv1.2",
      SNICallback: (name, done) => {
        void answer(find, name, done);
      },
    },
    (socket) => void server.emit("connection", socket),
  );
  // The end of a handshake is the client's affair.
  tls.on("tlsClientError", (_error, socket) => void socket.destroy());
  const { host } = app.config;
  await listenOnce(tls, { host, port: acme.tlsPort, names: ["HOST", "TLS_PORT"] });
  return tls;
};

export const portOf = (server: TlsServer | undefined): number | undefined =>
  (server?.address() as AddressInfo | null | undefined)?.port;
