import type { Config } from "../config.ts";
import { notFound } from "../domain/kernel/errors.ts";
import { isIn, networkOf } from "../domain/accounts/rate-limits/limiter.ts";
import type { AnyRoute } from "./route.ts";

type Networks = Pick<Config, "superadminAllowCidrs">;

/** Whether the route is a super-admin's. */
export const isOfPlatform = ({ path, access }: AnyRoute): boolean =>
  path.startsWith("/superadmin/") || (access !== "public" && access.admin !== undefined);

/**
 * Whether the route is a super-admin's and the address is outside SUPERADMIN_ALLOW_CIDRS (none: all are
 * allowed).
 */
export const isHiddenFrom = ({ superadminAllowCidrs }: Networks, ip: string, route: AnyRoute): boolean => {
  if (superadminAllowCidrs.length === 0 || !isOfPlatform(route)) return false;
  const address = networkOf(ip);
  return address === undefined || !isIn(address, superadminAllowCidrs);
};

/** Answers as for an unknown address. @throws NOT_FOUND */
export const refuseOutsiders = (config: Networks, ip: string, route: AnyRoute): void => {
  if (isHiddenFrom(config, ip, route)) throw notFound("Page");
};
