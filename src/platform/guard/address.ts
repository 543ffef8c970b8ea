import { isIP } from "node:net";
import ipaddr from "ipaddr.js";
import { isIn, networkOf } from "../../domain/accounts/rate-limits/ip-address.ts";

/** The only block of IPv6 that has been allocated as public addresses. */
const ALLOCATED = ipaddr.IPv6.parseCIDR("2000::/3");
/** Addresses in public ranges at which clouds serve internal data to their machines. */
const CLOUD_INTERNAL = ["168.63.129.16"];

/** This machine and private networks, for development. Excludes the metadata service of clouds at 169.254. */
export const LOCAL_NETWORKS = [
  "127.0.0.0/8",
  "10.0.0.0/8",
  "172.16.0.0/12",
  "192.168.0.0/16",
  "100.64.0.0/10",
  "::1/128",
  "fc00::/7",
] as const;

/**
 * Whether an address belongs to the public internet, or to one of the networks in `allow`: CIDR blocks, which
 * the configuration has checked. False for invalid addresses and those with a zone.
 */
export const isPublicAddress = (text: string, allow: readonly string[] = []): boolean => {
  if (isIP(text) === 0 || text.includes("%")) return false;
  const network = networkOf(text);
  if (network === undefined) return false;
  if (isIn(network, allow)) return true;
  // IPv4-mapped IPv6 addresses are judged as IPv4.
  const address = ipaddr.process(text);
  if (address.range() !== "unicast" || isIn(network, CLOUD_INTERNAL)) return false;
  return address instanceof ipaddr.IPv4 || address.match(ALLOCATED);
};
