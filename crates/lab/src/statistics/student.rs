//! Student's t distribution, computed: the distribution function through the incomplete beta function, quantiles by
//! Newton's method. There is no table, because degrees of freedom may be any positive number.

use super::finite;

/// Returns the probability that a t variable is at most `t`. `None` unless `freedom` is positive and both are
/// finite.
#[must_use]
pub fn distribution(t: f64, freedom: f64) -> Option<f64> {
    if !t.is_finite() || !freedom.is_finite() || freedom <= 0.0 {
        return None;
    }
    let tail = 0.5 * incomplete_beta(freedom / (freedom + t * t), 0.5 * freedom, 0.5);
    finite(if t > 0.0 { 1.0 - tail } else { tail })
}

/// Returns the value that a t variable exceeds with probability `1 - probability`. `None` unless `probability` is
/// strictly between 0 and 1 and `freedom` is positive.
#[must_use]
pub fn quantile(probability: f64, freedom: f64) -> Option<f64> {
    if !(probability > 0.0 && probability < 1.0) {
        return None;
    }
    if probability < 0.5 {
        return quantile(1.0 - probability, freedom).map(|t| -t);
    }
    let mut high = 1.0;
    while distribution(high, freedom)? < probability {
        high *= 2.0;
    }
    let mut low = 0.0;
    let mut t = f64::midpoint(low, high);
    // Newton's steps, replaced by halving if one would leave the interval. About ten suffice, and never more than
    // halving takes.
    for _ in 0..200 {
        let missing = probability - distribution(t, freedom)?;
        if missing > 0.0 {
            low = t;
        } else {
            high = t;
        }
        let step = t + missing / density(t, freedom);
        let next = if step > low && step < high {
            step
        } else {
            f64::midpoint(low, high)
        };
        if (next - t).abs() <= 1e-13 * t || missing == 0.0 {
            break;
        }
        t = next;
    }
    finite(t)
}

fn density(t: f64, freedom: f64) -> f64 {
    let half = 0.5 * (freedom + 1.0);
    let front =
        ln_gamma(half) - ln_gamma(0.5 * freedom) - 0.5 * (freedom * std::f64::consts::PI).ln();
    (front - half * (t * t / freedom).ln_1p()).exp()
}

/// Returns the two-sided p of a t value: the probability of a value at least as far from 0. `None` as for
/// [`distribution`].
#[must_use]
pub fn two_sided(t: f64, freedom: f64) -> Option<f64> {
    Some((2.0 * distribution(-t.abs(), freedom)?).clamp(0.0, 1.0))
}

/// Returns the regularised incomplete beta function, 0 <= x <= 1; DLMF 8.17.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The continued fraction converges fast below the mean of the distribution only; the symmetry does the rest.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p();
    front.exp() * beta_fraction(x, a, b) / a
}

/// Computes the continued fraction DLMF 8.17.22 by the method of Lentz.
fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    let kept_off_zero = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / kept_off_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for step in 1..10_000 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = value;
        for term in [even, odd] {
            d = 1.0 / kept_off_zero(1.0 + term * d);
            c = kept_off_zero(1.0 + term / c);
            value *= c * d;
        }
        if (value - before).abs() <= value.abs() * 1e-16 {
            break;
        }
    }
    value
}

/// Returns the logarithm of the gamma function for positive arguments, by Stirling's series (DLMF 5.11.1) from 10
/// on and the recurrence below.
fn ln_gamma(argument: f64) -> f64 {
    let mut x = argument;
    let mut shift = 0.0;
    while x < 10.0 {
        shift += x.ln();
        x += 1.0;
    }
    let square = x * x;
    let series = 1.0 / 12.0
        - (1.0 / 360.0
            - (1.0 / 1260.0 - (1.0 / 1680.0 - 1.0 / (1188.0 * square)) / square) / square)
            / square;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series / x - shift
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::tests::close;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        let table = [
            (0.975, 1.0, 12.706),
            (0.975, 2.0, 4.303),
            (0.975, 3.0, 3.182),
            (0.975, 4.0, 2.776),
            (0.975, 5.0, 2.571),
            (0.975, 9.0, 2.262),
            (0.975, 30.0, 2.042),
            (0.975, 120.0, 1.980),
            (0.95, 1.0, 6.314),
            (0.95, 10.0, 1.812),
            (0.995, 1.0, 63.657),
            (0.995, 7.0, 3.499),
            (0.9995, 1.0, 636.619),
            (0.9995, 20.0, 3.850),
        ];
        for (probability, freedom, expected) in table {
            close(quantile(probability, freedom).unwrap(), expected, 5.1e-4);
            close(
                quantile(1.0 - probability, freedom).unwrap(),
                -expected,
                5.1e-4,
            );
        }
    }

    #[test]
    fn many_degrees_of_freedom_are_the_normal_distribution() {
        close(quantile(0.975, 1e7).unwrap(), 1.959_964, 1e-5);
        close(distribution(1.0, 1e7).unwrap(), 0.841_345, 1e-6);
    }

    #[test]
    fn one_degree_of_freedom_is_cauchy() {
        for t in [-50.0, -1.0, -0.1, 0.0, 0.3, 1.0, 7.0] {
            let cauchy = 0.5 + f64::atan(t) / std::f64::consts::PI;
            close(distribution(t, 1.0).unwrap(), cauchy, 1e-13);
        }
    }

    #[test]
    fn quantile_undoes_the_distribution_for_fractions_too() {
        for freedom in [0.7, 1.5, 2.0, 3.3, 11.9, 400.0] {
            for t in [0.01, 0.5, 1.0, 2.5, 6.0] {
                let probability = distribution(t, freedom).unwrap();
                close(quantile(probability, freedom).unwrap(), t, 1e-7);
            }
        }
    }

    #[test]
    fn two_sided_is_both_tails() {
        close(two_sided(2.776_445, 4.0).unwrap(), 0.05, 1e-6);
        close(two_sided(-2.776_445, 4.0).unwrap(), 0.05, 1e-6);
        close(two_sided(0.0, 4.0).unwrap(), 1.0, 1e-12);
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(quantile(0.0, 3.0), None);
        assert_eq!(quantile(1.0, 3.0), None);
        assert_eq!(quantile(0.9, 0.0), None);
        assert_eq!(quantile(f64::NAN, 3.0), None);
        assert_eq!(distribution(f64::NAN, 3.0), None);
        assert_eq!(distribution(1.0, -1.0), None);
    }

    #[test]
    fn gamma_is_the_factorial() {
        close(ln_gamma(5.0), 24.0_f64.ln(), 1e-12);
        close(ln_gamma(0.5), std::f64::consts::PI.sqrt().ln(), 1e-12);
        close(ln_gamma(21.0), 2_432_902_008_176_640_000.0_f64.ln(), 1e-12);
    }
}
