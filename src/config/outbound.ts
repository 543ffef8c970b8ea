/** Where requests may go to addresses that tenants have configured. */
export type OutboundSettings = {
  /** Networks that are allowed although they are not public. */
  allowCidrs: readonly string[];
  /** Allowed ports. */
  ports: readonly number[];
  /** Development only: plain http, this machine, private networks and any port. */
  allowLocal: boolean;
};

type Given = {
  OUTBOUND_ALLOW_CIDRS: string[];
  OUTBOUND_PORTS: number[];
  WEBHOOKS_ALLOW_LOCAL: boolean;
};

/** Returns the settings of requests to addresses that tenants have configured. */
export const outboundOf = (env: Given): OutboundSettings => ({
  allowCidrs: env.OUTBOUND_ALLOW_CIDRS,
  ports: env.OUTBOUND_PORTS,
  allowLocal: env.WEBHOOKS_ALLOW_LOCAL,
});
