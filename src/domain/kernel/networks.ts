import { isIP } from "node:net";
import ipaddr from "ipaddr.js";

/** The addresses that share the first `bits` bits of `base`. An IPv4-mapped IPv6 address counts as IPv4. */
export type Network = { base: ipaddr.IPv4 | ipaddr.IPv6; bits: number };

/** Bits of the prefix of one IPv6 subscriber, who may use a new address out of it for every request. */
const SUBSCRIBER_BITS = 64;
const MAPPED_BITS = 96;

const LOOPBACK = ["127.0.0.0/8", "::1"];

const unmapped = ({ base, bits }: Network): Network =>
  base instanceof ipaddr.IPv6 && bits >= MAPPED_BITS && base.isIPv4MappedAddress()
    ? { base: base.toIPv4Address(), bits: bits - MAPPED_BITS }
    : { base, bits };

/** Parses an address or a CIDR block; undefined for any other text. */
export const networkOf = (text: string): Network | undefined => {
  const [named = "", bitsText, ...rest] = text.split("/");
  // Without the interface name of a link-local address.
  const address = named.replace(/%.*$/s, "");
  if (isIP(address) === 0 || rest.length > 0 || !/^\d{1,3}$/.test(bitsText ?? "0")) return undefined;
  const base = ipaddr.parse(address);
  const width = base instanceof ipaddr.IPv4 ? 32 : 128;
  const bits = bitsText === undefined ? width : Number(bitsText);
  if (bits > width) return undefined;
  return unmapped({ base, bits });
};

/** Returns the network that limits and blocks of an address apply to: itself for IPv4, its /64 for IPv6. */
export const subscriberOf = (address: string): Network | undefined => {
  const network = address.includes("/") ? undefined : networkOf(address);
  return network?.base instanceof ipaddr.IPv6 ? { ...network, bits: SUBSCRIBER_BITS } : network;
};

/** Formats a network as PostgreSQL's cidr: no bit is set beyond the prefix. */
export const networkText = ({ base, bits }: Network): string => {
  const family = base instanceof ipaddr.IPv4 ? ipaddr.IPv4 : ipaddr.IPv6;
  return `${family.networkAddressFromCIDR(`${base.toString()}/${bits}`).toNormalizedString()}/${bits}`;
};

/** Returns the canonical spelling of an address; undefined for an invalid one. */
export const canonicalAddress = (text: string): string | undefined => {
  // The fast path for every request: IPv4 has no other spelling.
  if (isIP(text) === 4) return text;
  const base = text.includes("/") ? undefined : networkOf(text)?.base;
  return base instanceof ipaddr.IPv6 ? base.toRFC5952String() : base?.toString();
};

/** Returns the key of an address for limits, on every request. An invalid address is its own key. */
export const limitKeyOf = (text: string): string => {
  const base = text.includes(":") ? subscriberOf(text)?.base : undefined;
  if (!(base instanceof ipaddr.IPv6)) return base?.toString() ?? text;
  const net = base.parts.slice(0, 4).map((group) => group.toString(16));
  return `${net.join(":")}::/${SUBSCRIBER_BITS}`;
};

export const overlap = (one: Network, other: Network): boolean =>
  one.base.kind() === other.base.kind() && one.base.match(other.base, Math.min(one.bits, other.bits));

const parsedLists = new WeakMap<readonly string[], readonly Network[]>();

/** Parses a list of networks of the validated configuration, once. */
const networksOf = (list: readonly string[]): readonly Network[] => {
  let networks = parsedLists.get(list);
  if (networks === undefined) {
    networks = list.flatMap((text) => networkOf(text) ?? []);
    parsedLists.set(list, networks);
  }
  return networks;
};

/** Returns whether the network overlaps a list of the configuration. */
export const isIn = (network: Network, list: readonly string[]): boolean =>
  networksOf(list).some((one) => overlap(one, network));

/**
 * Returns whether blocking the network would shut out this machine or a proxy, and with it everybody behind
 * it.
 */
export const isProtected = (network: Network, trustedProxies: readonly string[]): boolean =>
  isIn(network, LOOPBACK) || isIn(network, trustedProxies);

/** Whether it is an address of this machine. */
export const isOfThisMachine = (address: string): boolean => {
  const network = networkOf(address);
  return network !== undefined && isIn(network, LOOPBACK);
};

/**
 * Returns the client's address, from X-Forwarded-For as far as it was set by trusted proxies: the last entry
 * that is not a trusted proxy. Anything to the left of that may be forged by the client.
 */
export const clientAddress = (
  { remoteAddress, forwardedFor }: { remoteAddress: string | undefined; forwardedFor: string | undefined },
  trustedProxies: readonly string[],
): string => {
  const entries = (forwardedFor ?? "").split(",").map((entry) => entry.trim());
  let address = remoteAddress ?? "";
  for (const entry of entries.toReversed()) {
    if (isIP(entry) === 0) break;
    const network = networkOf(address);
    if (network === undefined || !isIn(network, trustedProxies)) break;
    address = entry;
  }
  return canonicalAddress(address) ?? address;
};
