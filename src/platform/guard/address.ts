import { isIP } from "node:net";
import ipaddr from "ipaddr.js";
import { isIn, networkOf } from "../../domain/accounts/rate-limits/ip-address.ts";

/** Of all of IPv6, only this much has been given out as public addresses. */
const GIVEN_OUT = ipaddr.IPv6.parseCIDR("2000::/3");
/** Addresses that look like any other: clouds answer there with what only their machines should know. */
const LOOKS_PUBLIC = ["168.63.129.16"];

/** This machine and private networks, for development. Not what clouds tell their machines at 169.254. */
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
 * the configuration has checked. What is no address, or carries a zone, does not.
 */
export const isPublicAddress = (text: string, allow: readonly string[] = []): boolean => {
  if (isIP(text) === 0 || text.includes("%")) return false;
  const network = networkOf(text);
  if (network === undefined) return false;
  if (isIn(network, allow)) return true;
  // An IPv4 address in the clothes of IPv6 counts as what it is.
  const address = ipaddr.process(text);
  if (address.range() !== "unicast" || isIn(network, LOOKS_PUBLIC)) return false;
  return address instanceof ipaddr.IPv4 || address.match(GIVEN_OUT);
};
