/**
 * Returns what runs `load` when it is first called, and gives its result from then on. A failure is not kept:
 * the next call tries again, since a process may have been out of file descriptors or of memory.
 */
export const onceLoaded = <T>(load: () => Promise<T>): (() => Promise<T>) => {
  let loaded: Promise<T> | undefined;
  return () => {
    if (!loaded) {
      loaded = load();
      loaded.catch(() => (loaded = undefined));
    }
    return loaded;
  };
};
