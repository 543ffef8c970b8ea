import { isIP } from "node:net";

/** The addresses that share the first `bits` bits of `base`. An IPv4-mapped IPv6 address counts as IPv4. */
export type Network = { family: 4 | 6; base: bigint; bits: number };

const WIDTH = { 4: 32, 6: 128 } as const;
/** Bits of the prefix of one IPv6 subscriber, who may use a new address out of it for every request. */
const SUBSCRIBER_BITS = 64;
const MAPPED_PREFIX = 0xffffn;
const MAPPED_BITS = 96;

const LOOPBACK = ["127.0.0.0/8", "::1"];

/** Removes the interface name of a link-local address. */
const withoutZone = (text: string): string => text.replace(/%.*$/s, "");

const valueOf4 = (text: string): bigint =>
  text.split(".").reduce((value, part) => (value << 8n) | BigInt(part), 0n);

const partsOf = (text: string): number[] =>
  text === ""
    ? []
    : text.split(":").flatMap((part) => {
        if (!part.includes(".")) return [Number.parseInt(part, 16)];
        const value = Number(valueOf4(part));
        return [Math.floor(value / 65_536), value % 65_536];
      });

/** Returns the eight groups of an IPv6 address. */
const groupsOf = (text: string): number[] => {
  const [head = "", tail] = text.split("::");
  const first = partsOf(head);
  const last = tail === undefined ? [] : partsOf(tail);
  return [...first, ...Array.from({ length: 8 - first.length - last.length }, () => 0), ...last];
};

const valueOf6 = (text: string): bigint =>
  groupsOf(text).reduce((value, group) => (value << 16n) | BigInt(group), 0n);

const unmapped = ({ base, bits }: { base: bigint; bits: number }): Network =>
  bits >= MAPPED_BITS && base >> 32n === MAPPED_PREFIX
    ? { family: 4, base: base & 0xffff_ffffn, bits: bits - MAPPED_BITS }
    : { family: 6, base, bits };

/** Returns the network prefix of an address. */
export const prefixOf = ({ family, base }: Network, bits: number): bigint =>
  base >> BigInt(WIDTH[family] - bits);

/** Parses an address or a CIDR block; undefined for any other text. */
export const networkOf = (text: string): Network | undefined => {
  const [named = "", bitsText, ...rest] = text.split("/");
  const address = withoutZone(named);
  const version = isIP(address);
  if (version === 0 || rest.length > 0) return undefined;
  const family = version === 4 ? 4 : 6;
  if (bitsText !== undefined && !/^\d{1,3}$/.test(bitsText)) return undefined;
  const bits = bitsText === undefined ? WIDTH[family] : Number(bitsText);
  if (bits > WIDTH[family]) return undefined;
  return family === 4
    ? { family, base: valueOf4(address), bits }
    : unmapped({ base: valueOf6(address), bits });
};

/** Returns the network that limits and blocks of an address apply to: itself for IPv4, its /64 for IPv6. */
export const subscriberOf = (address: string): Network | undefined => {
  const network = address.includes("/") ? undefined : networkOf(address);
  if (network === undefined || network.family === 4) return network;
  return { ...network, bits: SUBSCRIBER_BITS };
};

/** Formats a network as PostgreSQL's cidr: no bit is set beyond the prefix. */
export const networkText = (network: Network): string => {
  const { family, bits } = network;
  const size = WIDTH[family];
  const base = prefixOf(network, bits) << BigInt(size - bits);
  const [step, radix, mark] = family === 4 ? [8, 10, "."] : [16, 16, ":"];
  const parts = Array.from({ length: size / step }, (_, index) => {
    const part = (base >> BigInt(size - step * (index + 1))) & ((1n << BigInt(step)) - 1n);
    return part.toString(radix);
  });
  return `${parts.join(mark)}/${bits}`;
};

/** Returns the canonical spelling of an address; undefined for an invalid one. */
export const canonicalAddress = (text: string): string | undefined => {
  // The fast path for every request: IPv4 has no other spelling.
  if (isIP(text) === 4) return text;
  const network = text.includes("/") ? undefined : networkOf(text);
  if (network === undefined) return undefined;
  const address = networkText(network).split("/", 1)[0] ?? "";
  return network.family === 4 ? address : new URL(`http://[${address}]`).hostname.slice(1, -1);
};

/** Returns the key of an address for limits, on every request. An invalid address is its own key. */
export const limitKeyOf = (text: string): string => {
  if (!text.includes(":")) return text;
  const address = withoutZone(text);
  if (isIP(address) === 0) return text;
  const groups = groupsOf(address);
  const net = groups.slice(0, 4);
  if (groups[5] === 0xffff && groups[4] === 0 && net.every((group) => group === 0))
    return canonicalAddress(address) ?? text;
  return `${net.map((group) => group.toString(16)).join(":")}::/${SUBSCRIBER_BITS}`;
};

export const overlap = (one: Network, other: Network): boolean => {
  const bits = Math.min(one.bits, other.bits);
  return one.family === other.family && prefixOf(one, bits) === prefixOf(other, bits);
};

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
