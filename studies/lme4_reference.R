# Write random meta-analyses of counts with the results of glmer of the R package lme4, for tests/test_count_effects.py.
#
#     Rscript studies/lme4_reference.R tests/references/lme4.json
#
# Half of the problems are binomial, half Poisson with an offset. All have domains without events or without failures.
suppressPackageStartupMessages(library(lme4))

numbers <- function(x) paste0("[", paste(formatC(x, digits = 12, format = "g"), collapse = ", "), "]")

control <- glmerControl(optimizer = "bobyqa", optCtrl = list(rhoend = 1e-9, maxfun = 100000),
                        check.conv.grad = "ignore", check.conv.singular = "ignore", check.conv.hess = "ignore",
                        tolPwrss = 1e-12)
set.seed(41)
problems <- character()
while (length(problems) < 40) {
  k <- sample(c(4, 5, 8, 15, 30), 1)
  tau <- sample(c(0, 0.2, 0.5, 1), 1)
  theta <- rnorm(k, 0, tau)
  domain <- factor(1:k)
  if (length(problems) %% 2 == 0) {
    n <- rpois(k, sample(c(5, 20, 60), 1)) + 1
    x <- rbinom(k, n, plogis(sample(c(1.5, 2.2, 3), 1) + theta))
    if (all(x < n) || all(x == n)) next
    fit <- glmer(cbind(x, n - x) ~ 1 + (1 | domain), family = binomial, nAGQ = 50, control = control)
    family <- "binomial"
  } else {
    n <- rgamma(k, 2, 2 / sample(c(3, 10, 40), 1))
    x <- rpois(k, n * exp(theta))
    if (all(x > 0) || all(x == 0)) next
    fit <- glmer(x ~ 1 + (1 | domain) + offset(log(n)), family = poisson, nAGQ = 50, control = control)
    family <- "poisson"
  }
  problems <- c(problems, paste0(
    "{\"family\": \"", family, "\", \"counts\": ", numbers(x), ", \"sizes\": ", numbers(n),
    ", \"estimate\": ", formatC(fixef(fit)[[1]], digits = 12, format = "g"),
    ", \"tau\": ", formatC(getME(fit, "theta")[[1]], digits = 12, format = "g"), "}"
  ))
}
output <- commandArgs(trailingOnly = TRUE)[1]
writeLines(c(paste0("{\"lme4\": \"", packageVersion("lme4"), "\", \"problems\": ["), paste(problems, collapse = ",\n"), "]}"), output)
