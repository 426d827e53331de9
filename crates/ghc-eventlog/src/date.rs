//! The date format of text profiles: `Sat Nov 21 00:56 2026`, in UTC.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// A date, which formats itself as in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date(u64);

impl Date {
    /// Returns the date that is this many seconds after the beginning of 1970.
    pub fn at(since_1970_s: u64) -> Date {
        Date(since_1970_s)
    }

    /// Returns the present date.
    pub fn now() -> Date {
        Date(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
    }
}

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, minutes) = (self.0 / 86_400, self.0 / 60 % 1_440);
        let (mut year, mut day) = (1970, days);
        let length = |year| if is_leap(year) { 366 } else { 365 };
        while day >= length(year) {
            day -= length(year);
            year += 1;
        }
        let february = if is_leap(year) { 29 } else { 28 };
        let mut month = 0;
        for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
            if day < days {
                break;
            }
            day -= days;
            month += 1;
        }
        let (weekday, month) = (DAYS[days as usize % DAYS.len()], MONTHS[month % MONTHS.len()]);
        write!(f, "{weekday} {month} {:>2} {:02}:{:02} {year}", day + 1, minutes / 60, minutes % 60)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, "Thu Jan  1 00:00 1970")]
    #[case(951_782_399, "Mon Feb 28 23:59 2000")]
    #[case(951_782_400, "Tue Feb 29 00:00 2000")]
    #[case(1_795_222_569, "Sat Nov 21 00:56 2026")]
    #[case(4_107_542_399, "Sun Feb 28 23:59 2100")]
    #[case(4_107_542_400, "Mon Mar  1 00:00 2100")]
    fn formats_dates_of_the_gregorian_calendar(#[case] seconds: u64, #[case] expected: &str) {
        assert_eq!(Date::at(seconds).to_string(), expected);
    }
}
