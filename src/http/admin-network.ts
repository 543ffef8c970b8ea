import { BlockList, isIPv4 } from "node:net";
import type { Config } from "../config.ts";
import { notFound } from "../domain/errors.ts";
import type { AnyRoute } from "./route.ts";

type Networks = Pick<Config, "superadminAllowCidrs">;

const lists = new WeakMap<readonly string[], BlockList>();

const listOf = (networks: readonly string[]): BlockList => {
  let list = lists.get(networks);
  if (!list) {
    list = new BlockList();
    for (const network of networks) {
      const [address = "", bits] = network.split("/");
      const family = isIPv4(address) ? "ipv4" : "ipv6";
      list.addSubnet(address, Number(bits ?? (family === "ipv4" ? 32 : 128)), family);
    }
    lists.set(networks, list);
  }
  return list;
};

const isOfPlatform = ({ path, access }: AnyRoute): boolean =>
  path.startsWith("/superadmin/") || (access !== "public" && access.admin !== undefined);

/** Whether the route is a super-admin's and the address outside SUPERADMIN_ALLOW_CIDRS (none: all are in). */
export const isHiddenFrom = ({ superadminAllowCidrs }: Networks, ip: string, route: AnyRoute): boolean =>
  superadminAllowCidrs.length > 0 &&
  isOfPlatform(route) &&
  !listOf(superadminAllowCidrs).check(ip, isIPv4(ip) ? "ipv4" : "ipv6");

/** Answers as for an address that nothing is at. @throws NOT_FOUND */
export const refuseOutsiders = (config: Networks, ip: string, route: AnyRoute): void => {
  if (isHiddenFrom(config, ip, route)) throw notFound("Page");
};
