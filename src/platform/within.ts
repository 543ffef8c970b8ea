/**
 * Returns the result of `promise`, unless it takes longer than `ms`, or nobody wants it any more.
 * @throws Error that says so
 */
export const within = async <T>(ms: number, promise: Promise<T>, signal?: AbortSignal): Promise<T> => {
  let timer: NodeJS.Timeout | undefined;
  let end: (() => void) | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms);
    end = () => reject(new Error("nobody waits for the answer any more"));
    if (signal?.aborted) end();
    signal?.addEventListener("abort", end);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", end!);
  }
};
