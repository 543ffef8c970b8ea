import { CUSTOM_DOMAINS_MAX } from "../../domain/accounts/domains/domains.ts";
import {
  FIRST_ORDERS_OF_ALL,
  ORDERS_OF_ALL,
  ORDERS_PER_NAME,
  ORDERS_PER_TENANT,
} from "../../domain/accounts/domains/order.ts";
import { type Limit, limit } from "./limit.ts";

const HOUR = 3_600;

/** Limits of custom domains, besides those of plans. */
export const DOMAIN_LIMITS: readonly Limit[] = [
  limit("domains", CUSTOM_DOMAINS_MAX, "items", "custom domains of a tenant, whatever its plan"),
  {
    ...limit("domains.orders.name", ORDERS_PER_NAME, "items", "certificates ordered for one name"),
    windowSeconds: HOUR,
  },
  {
    ...limit("domains.orders.tenant", ORDERS_PER_TENANT, "items", "certificates ordered for one tenant"),
    windowSeconds: 24 * HOUR,
  },
  {
    ...limit(
      "domains.orders.first",
      FIRST_ORDERS_OF_ALL,
      "items",
      "first certificates ordered by this server",
    ),
    windowSeconds: 3 * HOUR,
  },
  {
    ...limit("domains.orders", ORDERS_OF_ALL, "items", "certificates ordered by this server"),
    windowSeconds: 3 * HOUR,
  },
];
