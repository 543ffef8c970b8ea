import { connect as connectTcp, type LookupFunction, isIPv6, type Socket } from "node:net";
import { connect as connectTls, createSecureContext } from "node:tls";
import { Fault, Refused } from "./faults.ts";
import type { NameResolver } from "./names.ts";
import type { Guard, Target } from "./url.ts";

/** Time limit for TCP and TLS, in ms. */
const CONNECT_MS = 10_000;
/** Delay before the next address of a name is tried, in ms. */
const ADDRESS_MS = 2_500;
/** Maximum number of addresses tried per name. */
const ADDRESSES_MAX = 4;

export type Connect = (target: Target, signal: AbortSignal) => Promise<Socket>;
export type ConnectOptions = {
  guard: Guard;
  names: NameResolver;
  /** Trusted certificates, PEM; by default those of Node.js. */
  ca: string | undefined;
};

/**
 * Connects to targets by addresses that have all been checked: a name is looked up once, and the checked
 * addresses are the ones used. The connected address is checked again before anything is sent.
 */
export const createConnect = ({ guard, names, ca }: ConnectOptions): Connect => {
  // Created once, because reading all authorities costs milliseconds.
  const secureContext = createSecureContext({ minVersion: "TLSv1.2", ...(ca === undefined ? {} : { ca }) });

  const addressesOf = async (
    { host, isAddress }: Target,
    signal: AbortSignal,
  ): Promise<readonly string[]> => {
    const addresses = isAddress ? [host] : await names.resolve(host, signal);
    // A non-public address among others is an attack, or a mistake.
    if (!addresses.every(guard.isAllowed)) throw new Refused();
    return addresses.slice(0, ADDRESSES_MAX);
  };

  const secure = (socket: Socket, { host, isAddress }: Target): Promise<Socket> => {
    const secured = connectTls({
      socket,
      secureContext,
      // The name that the certificate must match.
      host,
      ...(isAddress ? {} : { servername: host }),
      ALPNProtocols: ["http/1.1"],
      // Regardless of the environment.
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
    const isClosed = () => reject(new Fault("the connection was closed while it was being opened"));
    const isThere = () => {
      socket.off("error", reject).off("close", isClosed);
      // Until the next listener is attached.
      socket.on("error", () => undefined);
      resolve(socket);
    };
    socket.once(event, isThere).once("error", reject).once("close", isClosed);
  });
