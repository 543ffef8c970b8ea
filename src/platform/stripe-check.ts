import type Stripe from "stripe";
import type { BillingSettings } from "../config/sections.ts";
import type { Interval, PriceOf } from "../domain/accounts/billing/provider.ts";
import { isGone, openStripe } from "./stripe.ts";

/** What Stripe calls intervals. */
const PERIODS: Readonly<Record<Interval, Stripe.Price.Recurring["interval"]>> = {
  monthly: "month",
  yearly: "year",
};

/** Returns why a price cannot be sold, as a predicate; undefined when it can. */
const problemOf = ({ active, recurring }: Stripe.Price, { interval }: PriceOf): string | undefined => {
  if (!active) return "is archived";
  if (recurring === null) return "is paid once and not again and again";
  const { interval: period, interval_count: count } = recurring;
  return period === PERIODS[interval] && count === 1 ? undefined : `is not paid ${interval}`;
};

/**
 * Asks Stripe for the prices that are sold.
 * @returns the problem of each that cannot be sold; empty: all can be
 * @throws Error of the library, where the key is refused or Stripe does not answer
 */
export const checkStripePrices = async (settings: BillingSettings): Promise<string[]> => {
  const stripe = await openStripe(settings);
  const problems: string[] = [];
  for (const price of settings.prices) {
    const { plan, interval, priceId } = price;
    const name = `${plan}_${interval.toUpperCase()}=${priceId}`;
    try {
      const problem = problemOf(await stripe.prices.retrieve(priceId), price);
      if (problem !== undefined) problems.push(`${name} ${problem}`);
    } catch (error) {
      if (!isGone(error)) throw error;
      problems.push(`${name} is not known to the account and mode of the key`);
    }
  }
  return problems;
};
