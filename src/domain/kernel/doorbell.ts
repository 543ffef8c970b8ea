/** What is told when partitions of a queue have new rows. */
export type Doorbell = {
  outbox(parts: Iterable<number>): void;
  events(parts: Iterable<number>): void;
  jobs(): void;
  webhooks(ids: Iterable<string>): void;
};

/** For where nobody waits for what is committed. */
export const NO_DOORBELL: Doorbell = {
  outbox: () => undefined,
  events: () => undefined,
  jobs: () => undefined,
  webhooks: () => undefined,
};
