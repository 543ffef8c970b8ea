/** Callbacks that are notified when partitions of a queue have new rows. */
export type Doorbell = {
  outbox(parts: Iterable<number>): void;
  events(parts: Iterable<number>): void;
  jobs(): void;
  webhooks(ids: Iterable<string>): void;
};

/** For contexts without consumers. */
export const NO_DOORBELL: Doorbell = {
  outbox: () => undefined,
  events: () => undefined,
  jobs: () => undefined,
  webhooks: () => undefined,
};
