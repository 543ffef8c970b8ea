import { connect as connectTcp, type LookupFunction, isIPv6, type Socket } from "node:net";
import { connect as connectTls, createSecureContext } from "node:tls";
import { Fault, Refused } from "./faults.ts";
import type { Names } from "./names.ts";
import type { Guard, Target } from "./url.ts";

/** TCP and TLS, in ms. */
const CONNECT_MS = 10_000;
/** Before the next address of a name is tried. */
const ADDRESS_MS = 2_500;
/** Addresses of a name that are tried. */
const ADDRESSES_MAX = 4;

export type Connect = (target: Target, signal: AbortSignal) => Promise<Socket>;
export type ConnectOptions = {
  guard: Guard;
  names: Names;
  /** Certificates to trust, PEM; those that Node.js brings without. */
  ca: string | undefined;
};

/**
 * Connects to targets by addresses that have been checked, all of them: a name is looked up once, and what
 * was checked is what is connected to. The address that was reached is checked again before anything is sent.
 */
export const createConnect = ({ guard, names, ca }: ConnectOptions): Connect => {
  // Reading all authorities costs milliseconds: once.
  const secureContext = createSecureContext({ minVersion: "TLSv1.2", ...(ca === undefined ? {} : { ca }) });

  const addressesOf = async (
    { host, isAddress }: Target,
    signal: AbortSignal,
  ): Promise<readonly string[]> => {
    const addresses = isAddress ? [host] : await names.resolve(host, signal);
    // One that is not public among others is an attack, or a mistake.
    if (!addresses.every(guard.isAllowed)) throw new Refused();
    return addresses.slice(0, ADDRESSES_MAX);
  };

  const secure = (socket: Socket, { host, isAddress }: Target): Promise<Socket> => {
    const secured = connectTls({
      socket,
      secureContext,
      // What the certificate has to be for.
      host,
      ...(isAddress ? {} : { servername: host }),
      ALPNProtocols: ["http/1.1"],
      // Whatever the environment says.
      rejectUnauthorized: true,
    });
    return connected(secured, "secureConnect");
  };

  return async (target, signal) => {
    const addresses = await addressesOf(target, signal);
    const socket = connectTcp({
      host: target.host,
      port: target.port,
      lookup: pinnedTo(addresses),
      autoSelectFamily: true,
      autoSelectFamilyAttemptTimeout: ADDRESS_MS,
      noDelay: true,
    });
    let late: Fault | undefined;
    const end = () => socket.destroy();
    const timer = setTimeout(() => {
      late = new Fault(`no connection within ${CONNECT_MS / 1000} s`);
      end();
    }, CONNECT_MS);
    signal.addEventListener("abort", end, { once: true });
    if (signal.aborted) end();
    try {
      await connected(socket, "connect");
      if (!guard.isAllowed(socket.remoteAddress ?? "")) throw new Refused();
      return target.isTls ? await secure(socket, target) : socket;
    } catch (error) {
      end();
      throw late ?? error;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
    }
  };
};

const pinnedTo =
  (addresses: readonly string[]): LookupFunction =>
  (_name, _options, callback) => {
    callback(
      null,
      addresses.map((address) => ({ address, family: isIPv6(address) ? 6 : 4 })),
    );
  };

const connected = (socket: Socket, event: "connect" | "secureConnect"): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const isClosed = () => reject(new Fault("the connection was closed while it was made"));
    const isThere = () => {
      socket.off("error", reject).off("close", isClosed);
      // Until the next one listens.
      socket.on("error", () => undefined);
      resolve(socket);
    };
    socket.once(event, isThere).once("error", reject).once("close", isClosed);
  });
